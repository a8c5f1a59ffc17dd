"""A FastAPI app like any other: uvicorn starts it, and every request reaches it as it came."""

import asyncio

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

PRICES = {"wheel": 120, "stone": 80, "gate": 35}

app = FastAPI(title="The miller's shop")


class Order(BaseModel):
    item: str
    count: int = Field(default=1, ge=1, le=100)


@app.get("/health")
def health():
    return {"status": "ok"}


@app.post("/orders", status_code=201)
def place(order: Order):
    """FastAPI checks the order: a count of 0 is answered with 422."""
    return {"item": order.item, "count": order.count, "price": PRICES.get(order.item, 10) * order.count}


@app.get("/ticks")
async def ticks(count: int = 3):
    """Server-sent events: each one arrives when it is sent."""

    async def events():
        for number in range(1, count + 1):
            yield f"data: tick {number}\n\n"
            await asyncio.sleep(0.2)

    return StreamingResponse(events(), media_type="text/event-stream")
