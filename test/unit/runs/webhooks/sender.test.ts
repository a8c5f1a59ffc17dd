import { expect, test } from "vitest";
import { hostsEntries, nameResolver } from "../../../../src/runs/webhooks/sender.ts";

const FILE = `
127.0.0.1\tlocalhost
# 10.0.0.9 commented
172.17.0.1  host.docker.internal gateway # the host
::1 localhost ip6-localhost
not-an-address odd
`;

test("a hosts file gives every address of a name, whatever its case", () => {
  expect(hostsEntries(FILE, "LocalHost")).toEqual(["127.0.0.1", "::1"]);
  expect(hostsEntries(FILE, "host.docker.internal")).toEqual(["172.17.0.1"]);
  expect(hostsEntries(FILE, "commented")).toEqual([]);
  expect(hostsEntries(FILE, "odd")).toEqual([]);
  expect(hostsEntries("", "localhost")).toEqual([]);
});

test("names below localhost are this machine, without asking anybody", async () => {
  expect(await nameResolver()("surely.not.in.a.file.localhost")).toEqual(["127.0.0.1", "::1"]);
});
