# SPDX-License-Identifier: GPL-2.0-or-later
"""Which services of a fleet should get huge pages on which machines, and what does that cost?

`read_plan` reads a plan, `run_review` estimates its services, `review_document` decides by its
policy; the rest writes that down.
"""
