import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";
import { CASES, type Ended, expectFailure } from "../../integration/cli/asking-commands.ts";
import { Client } from "../../integration/cli/client.ts";

const shared = sharedService({ hello: { main: "def run():\n    return 'hello'\n" } });

/** Runs each in a process of its own, a few at a time. */
async function runEach(client: Client, cases: typeof CASES): Promise<Ended[]> {
  const waiting = [...cases];
  const done: Ended[] = [];
  const work = async (): Promise<void> => {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      done.push({ name: next.name, ran: await client.runAlone(...next.args) });
    }
  };
  await Promise.all([work(), work(), work()]);
  return done;
}

verifies(
  "cli.errors",
  "a token that is not taken is named by where it came from, with the command that helps",
  async () => {
    const client = new Client(shared(), {
      MILLRACE_TOKEN: "wrong",
      MILLRACE_PROJECT: shared().service.owner.projectId,
    });
    for (const ended of await runEach(client, CASES)) {
      expectFailure(
        ended,
        /: millrace: \S+ does not accept the token from MILLRACE_TOKEN\n {2}→ millrace login http/,
      );
    }
  },
);
