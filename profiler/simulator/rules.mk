# SPDX-License-Identifier: GPL-2.0-or-later
# How the Valgrind tool is built; included by the Makefile.
simulator:
