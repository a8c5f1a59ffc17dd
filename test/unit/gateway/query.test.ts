import { expect, test } from "vitest";
import { readQuery } from "../../../src/gateway/query.ts";

const PLAIN = { isAsync: false, webhookEndpoint: null };

test("a query without our parameters asks for nothing", () => {
  for (const query of ["", "a=1", "Async=true", "async%5B%5D=true", "xasync=true&asyncx=1"]) {
    expect([query, readQuery(query)]).toEqual([query, PLAIN]);
  }
});

test("async takes true or false, and nothing else", () => {
  expect(readQuery("async=true").isAsync).toBe(true);
  expect(readQuery("async=false").isAsync).toBe(false);
  expect(readQuery("a=1&%61sync=true").isAsync).toBe(true);
  for (const query of [
    "async",
    "async=",
    "async=TRUE",
    "async=1",
    "async=yes",
    "async=true%20",
    "async=+true",
  ]) {
    expect(() => readQuery(query)).toThrow("async must be true or false.");
  }
});

test("a parameter given twice is refused, even with the same value", () => {
  for (const query of ["async=true&async=true", "async=true&async=false", "async=false&%61sync=false"]) {
    expect(() => readQuery(query)).toThrow("async may be given only once.");
  }
  expect(() => readQuery("webhookEndpoint=a&webhookEndpoint=b")).toThrow(
    "webhookEndpoint may be given only once.",
  );
});

test("webhookEndpoint is decoded once", () => {
  expect(readQuery("webhookEndpoint=https%3A%2F%2Fa.example%2Fx%3Fy%3D%252F").webhookEndpoint).toBe(
    "https://a.example/x?y=%2F",
  );
});
