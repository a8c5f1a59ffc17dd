"""The peer: a batched function on BentoML, for `bentoml serve`. The variables BENCH_SIZE and BENCH_WAIT_MS set its batches."""

import os
import time
from typing import List

import bentoml


@bentoml.service(workers=1, traffic={"timeout": 60, "max_concurrency": 2000})
class Batched:
    # The service predicts how long a batch takes and refuses calls that would take longer than the latency.
    @bentoml.api(
        batchable=True,
        max_batch_size=int(os.environ["BENCH_SIZE"]),
        max_latency_ms=int(os.environ["BENCH_WAIT_MS"]),
    )
    def work(self, n: List[int]) -> List[int]:
        time.sleep(0.005 + 0.0002 * len(n))
        return n
