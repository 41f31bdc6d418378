# SPDX-License-Identifier: GPL-2.0-or-later
"""What should a reader of an estimate know before relying on it? Paragraphs: doc/caveats.md.

rules.caveats    those that apply

One function for each code: about the system and the runs (system.py), the costs (costs.py), the
simulation (simulation.py) and the counters (counters.py).
"""
