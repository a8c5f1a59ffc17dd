import type { FastifyRequest } from "fastify";
import { expect, test } from "vitest";
import { apiUrlOf, baseUrlOf } from "../../../../src/management/api/addresses.ts";

function request(host: string): FastifyRequest {
  return { protocol: "http", host } as FastifyRequest;
}

test("addresses follow the request's Host, on the port of each plane", () => {
  expect(baseUrlOf(request("127.0.0.1:4100"), null)).toBe("http://127.0.0.1:4100");
  expect(apiUrlOf(request("127.0.0.1:4100"), null, 4000)).toBe("http://127.0.0.1:4000");
  expect(apiUrlOf(request("mill.example"), null, 4000)).toBe("http://mill.example:4000");
  expect(apiUrlOf(request("[::1]:4100"), null, 4000)).toBe("http://[::1]:4000");
});

test("the public addresses win, without a slash at the end", () => {
  expect(baseUrlOf(request("127.0.0.1"), "https://base.example/")).toBe("https://base.example");
  expect(apiUrlOf(request("127.0.0.1"), "https://api.example/v/", 4000)).toBe("https://api.example/v");
});
