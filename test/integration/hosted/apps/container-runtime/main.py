def run(name: str = "world"):
    return {"hello": name}
