import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { Credentials } from "../../../src/blobs/s3/credentials.ts";
import { HandClock } from "../../support/clocks.ts";
import { type Play, scriptedStore } from "../../support/blobs/scripted-store.ts";
import { verifies } from "../../verifies.ts";

const NOBODY = { AWS_EC2_METADATA_DISABLED: "true", HOME: "/nonexistent" };
const FILE = `# keys
[default]
aws_access_key_id = of-default
aws_secret_access_key=secret = with = signs

[ other ]
aws_access_key_id=of-other
aws_secret_access_key=s
aws_session_token=lent
`;

function credentialsFile(): string {
  const dir = mkdtempSync(path.join(tmpdir(), "millrace-keys-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const file = path.join(dir, "credentials");
  writeFileSync(file, FILE);
  return file;
}

async function keys(env: NodeJS.ProcessEnv, clock = new HandClock()) {
  return await new Credentials(env, clock).keys();
}

verifies(
  "blobs.s3.keys",
  "the environment goes before a file, and a profile is looked for there",
  async () => {
    const file = { ...NOBODY, AWS_SHARED_CREDENTIALS_FILE: credentialsFile() };
    const env = { ...file, AWS_ACCESS_KEY_ID: "own", AWS_SECRET_ACCESS_KEY: "s", AWS_SESSION_TOKEN: "t" };
    expect(await keys(env)).toMatchObject({ accessKeyId: "own", secretAccessKey: "s", sessionToken: "t" });
    expect(await keys(file)).toMatchObject({
      accessKeyId: "of-default",
      secretAccessKey: "secret = with = signs",
      sessionToken: null,
    });
    const other = { ...file, AWS_PROFILE: "other" };
    expect(await keys(other)).toMatchObject({ accessKeyId: "of-other", sessionToken: "lent" });
    await expect(keys({ ...file, AWS_PROFILE: "none" })).rejects.toThrow('no keys for the profile "none"');
    await expect(keys(NOBODY)).rejects.toThrow("there are no credentials for the blob store: set AWS_ACCESS");
  },
);

function lends(clock: HandClock): Play {
  return ({ method, url, headers }, answer) => {
    if (method === "PUT" && url === "/latest/api/token") {
      answer.end("token-1");
      return;
    }
    const isAllowed = headers["x-aws-ec2-metadata-token"] === "token-1" || headers.authorization === "of-pod";
    if (!isAllowed) answer.writeHead(401).end();
    else if (url.endsWith("/security-credentials/")) answer.end("role-1\n");
    else {
      const ends = new Date(clock.now() + 3_600_000).toISOString();
      answer.end(
        JSON.stringify({ AccessKeyId: `of${url}`, SecretAccessKey: "s", Token: "t", Expiration: ends }),
      );
    }
  };
}

verifies(
  "blobs.s3.keys",
  "a container and a machine lend keys, which are asked for again before they end",
  async () => {
    const clock = new HandClock();
    const { url, came } = await scriptedStore(lends(clock));
    const machine = { HOME: "/nonexistent", AWS_EC2_METADATA_SERVICE_ENDPOINT: url };
    const accessKeyId = "of/latest/meta-data/iam/security-credentials/role-1";
    const credentials = new Credentials(machine, clock);
    const both = await Promise.all([credentials.keys(), credentials.keys()]);
    expect(both).toMatchObject([
      { accessKeyId, sessionToken: "t" },
      { accessKeyId, sessionToken: "t" },
    ]);
    expect(came).toHaveLength(3);
    clock.advance(30 * 60_000);
    await credentials.keys();
    expect(came).toHaveLength(3);
    clock.advance(26 * 60_000);
    await credentials.keys();
    expect(came).toHaveLength(6);

    const pod = {
      ...machine,
      AWS_CONTAINER_CREDENTIALS_FULL_URI: `${url}/pod`,
      AWS_CONTAINER_AUTHORIZATION_TOKEN: "of-pod",
    };
    expect(await keys(pod, clock)).toMatchObject({ accessKeyId: "of/pod" });
    const elsewhere = { ...pod, AWS_CONTAINER_CREDENTIALS_FULL_URI: "http://keys.example.com/" };
    await expect(keys(elsewhere)).rejects.toThrow("names neither this machine nor an https address");
  },
);

verifies("blobs.s3.keys", "keys that still hold outlive those who lend them", async () => {
  const clock = new HandClock();
  let isUp = true;
  const { url } = await scriptedStore((came, answer, past) => {
    if (isUp) lends(clock)(came, answer, past);
    else answer.writeHead(500).end();
  });
  const credentials = new Credentials(
    { HOME: "/nonexistent", AWS_EC2_METADATA_SERVICE_ENDPOINT: url },
    clock,
  );
  const first = await credentials.keys();
  isUp = false;
  clock.advance(58 * 60_000);
  expect(await credentials.keys()).toEqual(first);
  clock.advance(3 * 60_000);
  await expect(credentials.keys()).rejects.toThrow("there are no credentials");
});
