import time


def run(upper_range: int = 5, delay: float = 1.0):
    """Counts, slowly: each number is sent when it is yielded."""
    for number in range(upper_range):
        print(f"counting {number}")
        yield f"Number {number} "
        time.sleep(delay)
