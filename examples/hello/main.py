def run(name: str = "world"):
    """Greets somebody."""
    return {"message": f"Hello, {name}!"}
