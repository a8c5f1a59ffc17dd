"""A job of many steps: nobody waits for it, and it tells how far it is."""

import time


def run(rows: int = 20, seconds_per_row: float = 0.2, run_id: str = ""):
    """Counts what is in the rows. Call it with ?async=true, and a webhookEndpoint if somebody should be told."""
    if not 1 <= rows <= 10_000:
        raise ValueError("rows must be between 1 and 10,000")
    total = 0
    for row in range(1, rows + 1):
        time.sleep(seconds_per_row)
        total += row * row
        # Lines that are printed belong to the run: `millrace logs report --run ID --follow` shows them as they come.
        if row % max(1, rows // 10) == 0:
            print(f"{row} of {rows} rows, {100 * row // rows}%", flush=True)
    return {"run": run_id, "rows": rows, "sum_of_squares": total}
