def run(name="x", n=1):
    return {"message": "hello " + name, "n": n}
