import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { Command, scratchDirectory } from "../../support/command-line.ts";
import { outboxes } from "../../support/outbox.ts";
import { REPOSITORY } from "../../support/source-files.ts";

const outbox = outboxes();
const DOCUMENT = readFileSync(path.join(REPOSITORY, "docs/webhooks.md"), "utf8");

const EXAMPLES = [
  { fence: "js", file: "receiver.mjs", program: process.execPath },
  { fence: "python", file: "receiver.py", program: "python3" },
];

test.each(EXAMPLES)("the receiver in $fence takes what is genuine and nothing else", async (example) => {
  const [, code = ""] = new RegExp(`\`\`\`${example.fence}\n([\\s\\S]*?)\`\`\``).exec(DOCUMENT) ?? [];
  expect(code).not.toBe("");
  const directory = scratchDirectory();
  writeFileSync(path.join(directory, example.file), code);
  const box = await outbox();
  await box.secrets.make(box.projectId);
  const { id, secret } = await box.secrets.make(box.projectId);
  const receiver = new Command(example.program, [example.file], {
    cwd: directory,
    env: { WEBHOOK_SECRET: secret, PORT: "0" },
  });
  const [, port] = await receiver.printed(/listening on (\d+)/);
  const deliverer = box.deliverer();

  const [first] = await box.add(`http://127.0.0.1:${port}/hook`);
  deliverer.wake();
  await box.count("delivered", 1);
  await receiver.printed(new RegExp(`run ${first?.id} .*č 😀 0`));

  // From now on only the other secret signs.
  await box.secrets.retire(box.projectId, id);
  const [second] = await box.add(`http://127.0.0.1:${port}/hook`);
  deliverer.wake();
  await box.became(second?.id ?? "", "was refused", ({ attempts }) => attempts > 0);
  expect((await box.store.deliveries.attempts(second?.id ?? ""))[0]).toMatchObject({ status: 401 });
});
