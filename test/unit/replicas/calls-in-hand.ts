import { Call, CallTable } from "../../../src/replicas/call.ts";

/** The calls 1 to 3 of a replica, which are under way. */
export function callsInHand(): CallTable {
  const calls = new CallTable();
  for (let wireId = 1; wireId <= 3; wireId++) {
    const call = new Call("0190a3c4-0000-7000-8000-000000000001", "run", Buffer.alloc(0), {
      onEnd: () => {},
    });
    call.wireId = wireId;
    calls.set(wireId, call);
  }
  return calls;
}
