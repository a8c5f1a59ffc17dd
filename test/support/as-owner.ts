import type { TestService } from "./service.ts";

type Ask = <Answer>(method: string, path: string, body?: object, token?: string) => Promise<Answer>;

/** Asks the management API, as the project's owner unless a token says who. */
export function asOwner({ service: { baseUrl, owner } }: TestService): Ask {
  return async <Answer>(method: string, url: string, body?: object, token: string = owner.token) => {
    const response = await fetch(baseUrl + url, {
      method,
      headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
      ...(body && { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`${method} ${url}: ${await response.text()}`);
    return (await response.json()) as Answer;
  };
}
