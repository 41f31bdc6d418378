# SPDX-License-Identifier: GPL-2.0-or-later
"""Which function, and which line of source, is an instruction of?

resolver.Resolver
binutils.source_lines
elf.ElfObject
"""
