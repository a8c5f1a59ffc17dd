import { testDatabases } from "../../support/databases.ts";
import { expectBombEnds, expectFillerEnds } from "../../support/remote/greedy-seats.ts";
import { requireOffered } from "../../support/walls/walled.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

verifies(
  "seats.limits.memory",
  "a memory bomb is 502 out_of_memory, and its neighbour notices nothing",
  async () => {
    await expectBombEnds(databases, "auto", "none");
  },
);

verifies(
  "seats.limits.disk",
  "temporary files beyond max_scratch end their app's replica",
  async (context) => {
    await requireOffered("process", context);
    await expectFillerEnds(databases);
  },
);
