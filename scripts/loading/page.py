def text(found): return ""
