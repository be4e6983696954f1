"""What several commands share: their command lines, runs of executables, and readers of runs' output files.

A file of scripts/ is a command; a folder beside this one belongs to the command that it is named after, or to several like it.
"""
