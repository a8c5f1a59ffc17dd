import { findInterpreter as ask, type Interpreter } from "../../src/host/interpreter.ts";

// Takes the place of `src/host/interpreter.ts` where a service starts (vitest.config.ts). A thousand services are
// started in the tests, and each asked the same `python3`: that was a sixth of what their starts took.

const known = new Map<string, Promise<Interpreter>>();

export async function findInterpreter(command: string): Promise<Interpreter> {
  // One that a test has made may be another by the next start.
  if (command !== "python3") return await ask(command);
  const searched = process.env["PATH"] ?? "";
  const asked = known.get(searched) ?? ask(command);
  known.set(searched, asked);
  // Nor is a failure kept.
  asked.catch(() => known.delete(searched));
  return await asked;
}
