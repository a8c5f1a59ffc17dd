raise RuntimeError("no weights")
