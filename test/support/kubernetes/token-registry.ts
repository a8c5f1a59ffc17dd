import { X509Certificate, createSign, randomUUID } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, request } from "node:https";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { onTestFinished } from "vitest";
import { freePort } from "../free-port.ts";
import { until } from "../until.ts";
import { spawnRegistry, type TestRegistry } from "./test-registry.ts";

const SERVICE = "registry";
const ISSUER = "test";
const LIFE_SECONDS = 3_600;

/** A registry that takes tokens instead of logins: those of a server of its own, which asks for the same login. */
export type TokenRegistry = {
  readonly host: string;
  /** How many tokens were given for a login. */
  readonly given: () => number;
};

/** Starts one with the images of another. Both it and its token server have certificates of a private authority. */
export async function tokenRegistry({ folder, host, login }: TestRegistry): Promise<TokenRegistry> {
  const [address = ""] = host.split(":");
  const key = readFileSync(path.join(folder, "own.key"), "utf8");
  const cert = readFileSync(path.join(folder, "own.pem"), "utf8");
  const expected = `Basic ${Buffer.from(`${login.username}:${login.password}`).toString("base64")}`;
  let given = 0;
  const server = createServer({ key, cert }, (asked, response) => {
    const url = new URL(asked.url ?? "/", "https://tokens");
    // Clients try another way first, which not every server knows.
    const status = asked.method === "GET" ? (asked.headers.authorization === expected ? 200 : 401) : 405;
    if (status === 200) given += 1;
    const token = status === 200 ? tokenFor(url.searchParams.getAll("scope"), key, cert) : null;
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify({ token }));
  });
  server.listen(0, address);
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const token = {
    realm: `https://${address}:${port}/token`,
    service: SERVICE,
    issuer: ISSUER,
    rootcertbundle: path.join(folder, "ca.pem"),
  };
  const ownPort = await freePort();
  const registry = spawnRegistry(folder, ownPort, { token });
  onTestFinished(async () => {
    registry.kill("SIGKILL");
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const own = `${address}:${ownPort}`;
  await until("the registry answers", async () => (await statusOf(own)) === 401);
  return { host: own, given: () => given };
}

async function statusOf(host: string): Promise<number> {
  return await new Promise((resolve) => {
    const asked = request(`https://${host}/v2/`, { rejectUnauthorized: false, agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    asked.on("error", () => resolve(0));
    asked.end();
  });
}

/** Signed by a certificate that it brings along. */
function tokenFor(scopes: readonly string[], key: string, cert: string): string {
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
  const now = Math.floor(Date.now() / 1000);
  const header = { typ: "JWT", alg: "RS256", x5c: [new X509Certificate(cert).raw.toString("base64")] };
  const access = scopes
    .flatMap((scope) => scope.split(" "))
    .map((scope) => {
      const [type, name, actions = ""] = scope.split(":");
      return { type, name, actions: actions.split(",") };
    });
  const times = { iat: now, nbf: now - 10, exp: now + LIFE_SECONDS };
  const claims = { iss: ISSUER, sub: "millrace", aud: SERVICE, jti: randomUUID(), ...times, access };
  const signed = `${part(header)}.${part(claims)}`;
  return `${signed}.${createSign("RSA-SHA256").update(signed).sign(key).toString("base64url")}`;
}
