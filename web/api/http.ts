import type { Infer, Shape } from "../../src/shapes/shape.ts";
import { ApiError, readAnswer, requireGood } from "./answer.ts";
import { installation } from "./installation.ts";
import { session } from "./session.ts";

type Query = Readonly<Record<string, string | number | boolean | null | undefined>>;

export type RequestOptions = {
  readonly method?: string;
  readonly query?: Query;
  /** Sent as JSON. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
  /** A 401 is about the password in the body, not about the session. */
  readonly hasPassword?: true;
};

/** Asks the management API as whoever is signed in. */
export async function ask<S extends Shape>(
  shape: S,
  path: string,
  options: RequestOptions = {},
): Promise<Infer<S>> {
  return await readAnswer(shape, await send(path, options));
}

/** Asks the management API for a text that is no JSON. */
export async function askText(path: string, options: RequestOptions = {}): Promise<string> {
  const answer = await send(path, options);
  await requireGood(answer);
  return await answer.text();
}

/** Has the management API do something, as whoever is signed in; of the answer only counts that it is a good one. */
export async function tell(path: string, options: RequestOptions): Promise<void> {
  await requireGood(await send(path, options));
}

/** Asks where apps are called, as whoever is signed in; the caller reads the answer, whatever it is. */
export async function askApps(path: string, options: RequestOptions = {}): Promise<Response> {
  return await send(`${installation.apiUrl}${path}`, options);
}

async function send(url: string, options: RequestOptions): Promise<Response> {
  // Asked again, a wrong password would count as two: the session is renewed before, so that a 401 is final.
  if (options.hasPassword) return await attempt(url, options, await session.renew());
  const first = await attempt(url, options, await session.token());
  if (first.status !== 401) return first;
  // Revoked, or the clock of this machine is wrong: the cookie decides.
  const token = await session.renew();
  if (token === null) throw await ApiError.of(first);
  return await attempt(url, options, token);
}

async function attempt(url: string, options: RequestOptions, token: string | null): Promise<Response> {
  const { method = "GET", query = {}, body, headers = {}, signal } = options;
  const given = Object.entries(query).filter(
    ([, value]) => value !== undefined && value !== null && value !== "",
  );
  const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return await fetch(search ? `${url}?${search}` : url, {
    method,
    headers: {
      ...(token !== null && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && { "content-type": "application/json" }),
      ...headers,
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    ...(signal && { signal }),
  });
}
