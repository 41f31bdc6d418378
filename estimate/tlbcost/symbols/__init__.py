# SPDX-License-Identifier: GPL-2.0-or-later
"""To which function and source line does an instruction belong?

resolver.Resolver
binutils.source_lines
mapped_file.mapped_file     files of processes in containers
elf.ElfObject
"""
