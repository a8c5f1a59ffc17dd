import { expect, test } from "vitest";
import { agentPython } from "./agent-python.ts";

test("an event of a descriptor that was closed in the same round does not reach the next one of that number", () => {
  const code = `
import socket
from millrace_agent.loop import IN, Loop

loop = Loop()
acts = []
first, second = socket.socketpair(), socket.socketpair()
numbers = [first[0].fileno(), second[0].fileno()]

def replace(own, other):
    """Closes the other pair, whose event is due, and watches a new descriptor of the same number."""
    def act(events):
        acts.append("event")
        loop.forget(other[0].fileno())
        number = other[0].fileno()
        other[0].close()
        new, peer = socket.socketpair()
        kept.extend([new, peer])
        if new.fileno() != number:
            os.dup2(new.fileno(), number)
        loop.watch(number, IN, lambda events: acts.append("stale"))
        loop.stop()
    return act

kept = []
loop.watch(numbers[0], IN, replace(first, second))
loop.watch(numbers[1], IN, replace(second, first))
first[1].send(b"x")
second[1].send(b"x")
loop.run(lambda now: None)
print(json.dumps(acts))
`;
  expect(agentPython(code)).toEqual(["event"]);
});
