"""One command for all tools: finds the executable of a scenario's machine, lists what is shipped, writes completions and the manual page (railyard)."""
