import { expect, test } from "vitest";
import { ATTACKS } from "../../../../../src/cli/operator/escape/try-attacks.ts";

test("an attack that is named after the one before it comes after that one", () => {
  const names = Object.values(ATTACKS).flatMap((attacks) => attacks.map(({ name }) => name));
  const before = (name: string): string | undefined => {
    const at = names.indexOf(name);
    return names.slice(0, at).findLast((other) => !other.startsWith("the same"));
  };
  expect([
    before("the same by the service's root"),
    before("the same by one of a pair of sockets that changes while it is judged"),
    before("the same by a unix socket that changes while it is judged"),
    before("the same from a thread with descriptors of its own"),
  ]).toEqual([
    "connect to a docker.sock",
    "take a port that is kept for servers",
    "take a port that is kept for servers",
    "connect to the management API by a unix socket that changes while it is judged",
  ]);
});
