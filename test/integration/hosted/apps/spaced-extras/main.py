import importlib

greetings = importlib.import_module("greetings")


def run(name: str = "world"):
    return {greetings.WORD: name}
