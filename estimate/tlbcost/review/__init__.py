# SPDX-License-Identifier: GPL-2.0-or-later
"""Review of a fleet: which services should get huge pages on which hosts.

`read_plan` reads a plan, `run_review` estimates its services, `review_document` decides by its
policy; the rest writes that down.
"""
