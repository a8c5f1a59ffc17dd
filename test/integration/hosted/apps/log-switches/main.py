def run(name: str = "world"):
    return {"hello": name}


def stream(name: str = "world"):
    yield "hello"
    yield name
