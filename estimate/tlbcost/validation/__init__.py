# SPDX-License-Identifier: GPL-2.0-or-later
"""How far off are estimates from what huge pages really save on this machine?

session.validate_suite        `tlbcost validate`: the suite predicted, run, and kept as a record
stream.run_stream             `tlbcost validate --stream`: STREAM alone, with its rates
stream_report.print_stream    its report; that of a record is accuracy.report.print_record
listener.listener             a launcher that keeps what programs print
"""
