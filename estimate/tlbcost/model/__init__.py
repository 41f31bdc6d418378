# SPDX-License-Identifier: GPL-2.0-or-later
"""What would huge pages save, by counts and costs? Pure functions; doc/model.md has the formulas.

gain.PredictedGain           the result of every model, with its verdict
miss_costs.predicted         simulated misses times their costs
overlap.with_overlap         modelled windows, in which translation overlaps with other work
walk_share.predicted         the share of the cycles in page walks that counters show
"""
