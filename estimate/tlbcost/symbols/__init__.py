# SPDX-License-Identifier: GPL-2.0-or-later
"""To which function and source line does an instruction belong?

resolver.Resolver
binutils.source_lines
region.region_of            where a phase of a program begins and ends
mapped_file.mapped_file     files of processes in containers
elf.ElfObject
"""
