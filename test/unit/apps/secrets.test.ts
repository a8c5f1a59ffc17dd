import { expect, test } from "vitest";
import type { SecretMap } from "../../../src/model/app.ts";
import type { SecretScope } from "../../../src/store/accounts/sealed-secrets.ts";
import { AppSecrets } from "../../../src/apps/secrets.ts";

const APP = { projectId: "p-one", appNumber: 7 };
const PROJECT = { projectId: "p-one", appNumber: 0 };

test("an app's own secrets go over its project's, and each map is read once", async () => {
  const read: SecretScope[] = [];
  const secrets = new AppSecrets({
    read: async (place) => {
      read.push(place);
      return (place.appNumber === 0 ? { A: "project", B: "project" } : { B: "app" }) satisfies SecretMap;
    },
  });
  expect(secrets.of(APP)).toEqual({});
  await secrets.load(APP);
  await secrets.load(APP);
  expect([secrets.of(APP), read]).toEqual([{ A: "project", B: "app" }, [PROJECT, APP]]);
  secrets.forget(APP);
  expect(secrets.of(APP)).toEqual({ A: "project", B: "project" });
});

test("of two changes the later one counts: it is read after the first has been", async () => {
  const answers: ((map: SecretMap) => void)[] = [];
  const secrets = new AppSecrets({ read: () => new Promise((resolve) => answers.push(resolve)) });
  const first = secrets.load(PROJECT);
  const second = secrets.refresh(PROJECT);
  expect(answers).toHaveLength(1);
  answers[0]?.({ A: "old" });
  await first;
  answers[1]?.({ A: "new" });
  expect(await second).toBe(true);
  expect(secrets.of(APP)).toEqual({ A: "new" });
});

test("what is not at hand is not read again, and what is the same is no change", async () => {
  let count = 0;
  const secrets = new AppSecrets({ read: async () => ({ A: String((count += 1) > 3) }) });
  expect([await secrets.refresh(APP), count]).toEqual([false, 0]);
  await secrets.load(APP);
  expect([await secrets.refresh(APP), await secrets.refresh(APP), count]).toEqual([false, true, 4]);
});
