# SPDX-License-Identifier: GPL-2.0-or-later
"""How far were predictions from what huge pages saved?

record.track_records   how predictions held on this machine, for an estimate to quote;
                       shipped_track_records the same of machines that tlbcost has records of
record.read_record     what `tlbcost validate` found; record.save_record keeps it
checks.prediction_of   an estimate, as it is compared with a trial
errors.accuracy        sizes of the errors, by model and by what was predicted
report.print_record    the report; figure.draw_record the figure
"""
