import { afterEach } from "vitest";
import { explanation } from "./explain.ts";

// Loaded anew for each test file, and nothing else is kept here.

// Before what the test opened is closed.
afterEach(async ({ task }) => {
  if (task.result?.state !== "fail") return;
  const text = await explanation();
  if (text !== "") process.stderr.write(`\n--- ${task.name}\n${text}\n---\n`);
});
