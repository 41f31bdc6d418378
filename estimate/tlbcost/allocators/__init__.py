# SPDX-License-Identifier: GPL-2.0-or-later
"""What allocates a program's memory: which malloc, or the runtime of which language?

recognise.program_of       by the executable and the libraries that it maps; recognise.Program
owner.owner_of             whose one memory region is
recognise.read_elf         what one executable or library says of itself
"""
