# SPDX-License-Identifier: GPL-2.0-or-later
"""To which function and source line does an instruction belong?

resolver.Resolver
binutils.source_lines
elf.ElfObject
"""
