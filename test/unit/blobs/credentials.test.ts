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

const STS_KEYS =
  "<AccessKeyId>of-role</AccessKeyId><SecretAccessKey>s&amp;s</SecretAccessKey><SessionToken>t</SessionToken>";

verifies(
  "blobs.s3.keys.identity",
  "a token is exchanged at STS for keys, and again before they end",
  async () => {
    const clock = new HandClock();
    const { url, came } = await scriptedStore((_, answer) => {
      const ends = new Date(clock.now() + 3_600_000).toISOString();
      answer.end(`<R><Credentials>${STS_KEYS}<Expiration>${ends}</Expiration></Credentials></R>`);
    });
    const file = path.join(path.dirname(credentialsFile()), "token");
    writeFileSync(file, "token-1\n");
    const env = {
      ...NOBODY,
      AWS_WEB_IDENTITY_TOKEN_FILE: file,
      AWS_ROLE_ARN: "arn:aws:iam::1:role/blobs",
      AWS_ENDPOINT_URL_STS: url,
    };
    const credentials = new Credentials({ ...env, AWS_CONTAINER_CREDENTIALS_FULL_URI: `${url}/pod` }, clock);
    const found = { accessKeyId: "of-role", secretAccessKey: "s&s", sessionToken: "t" };
    expect(await Promise.all([credentials.keys(), credentials.keys()])).toMatchObject([found, found]);
    expect(came).toMatchObject([{ method: "POST", url: "/" }]);
    expect(Object.fromEntries(new URLSearchParams(came[0]?.body.toString()))).toEqual({
      Action: "AssumeRoleWithWebIdentity",
      Version: "2011-06-15",
      RoleArn: "arn:aws:iam::1:role/blobs",
      RoleSessionName: "millrace",
      WebIdentityToken: "token-1",
    });
    writeFileSync(file, "token-2\n");
    clock.advance(56 * 60_000);
    await credentials.keys();
    expect(came).toHaveLength(2);
    expect(came[1]?.body.toString()).toContain("WebIdentityToken=token-2");
    expect(await keys({ ...env, AWS_ACCESS_KEY_ID: "own", AWS_SECRET_ACCESS_KEY: "s" })).toMatchObject({
      accessKeyId: "own",
    });
  },
);

verifies("blobs.s3.keys.identity", "what STS refuses is told in its words, without the token", async () => {
  const { url } = await scriptedStore((_, answer) => {
    answer.writeHead(403);
    answer.end("<E><Error><Code>AccessDenied</Code><Message>Not authorized</Message></Error></E>");
  });
  const file = path.join(path.dirname(credentialsFile()), "token");
  const env = {
    ...NOBODY,
    AWS_WEB_IDENTITY_TOKEN_FILE: file,
    AWS_ROLE_ARN: "role",
    AWS_ENDPOINT_URL_STS: url,
  };
  await expect(keys(env)).rejects.toThrow("the file that AWS_WEB_IDENTITY_TOKEN_FILE names cannot be read");
  writeFileSync(file, "secret-token");
  await expect(keys(env)).rejects.toThrow(
    `${url} gave no credentials for the blob store: it answered 403: AccessDenied: Not authorized`,
  );
  await expect(keys({ ...env, AWS_ENDPOINT_URL_STS: "http://127.0.0.1:1" })).rejects.toMatchObject({
    message: expect.stringContaining("http://127.0.0.1:1 gave no credentials") as string,
    code: "ECONNREFUSED",
  });
});

verifies("blobs.s3.keys", "an error lists every source that was tried", async () => {
  await expect(keys(NOBODY)).rejects.toThrow(
    '(AWS_ACCESS_KEY_ID is not set; /nonexistent/.aws/credentials has no keys for the profile "default"; AWS_WEB_IDENTITY_TOKEN_FILE is not set; AWS_CONTAINER_CREDENTIALS_RELATIVE_URI and _FULL_URI are not set; AWS_EC2_METADATA_DISABLED is true)',
  );
});

verifies(
  "blobs.s3.keys",
  "EKS Pod Identity is shown the token of a file, which is read each time",
  async () => {
    const clock = new HandClock();
    const { url, came } = await scriptedStore(lends(clock));
    const file = path.join(path.dirname(credentialsFile()), "token");
    writeFileSync(file, "of-pod\n");
    const env = {
      ...NOBODY,
      AWS_CONTAINER_CREDENTIALS_FULL_URI: `${url}/v1/credentials`,
      AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: file,
      AWS_CONTAINER_AUTHORIZATION_TOKEN: "not this one",
    };
    const credentials = new Credentials(env, clock);
    expect(await credentials.keys()).toMatchObject({ accessKeyId: "of/v1/credentials" });
    writeFileSync(file, "replaced");
    clock.advance(56 * 60_000);
    // Refused: the keys that still hold are used, and the next try waits a while.
    await credentials.keys();
    await credentials.keys();
    expect(came.map(({ headers }) => headers.authorization)).toEqual(["of-pod", "replaced"]);
    clock.advance(60_000);
    await credentials.keys();
    expect(came).toHaveLength(3);
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
