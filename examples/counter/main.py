import time


def run(upper_range: int = 5, delay: float = 0.2):
    """Counts, slowly."""
    numbers = []
    for number in range(upper_range):
        print(f"counting {number}")
        time.sleep(delay)
        numbers.append(number)
    return numbers
