/** An app as somebody may want to call it. */
type Callable = {
  readonly name: string;
  /** `{api_url}/v4/{project_id}/{app_name}` */
  readonly endpoint: string;
  /** A path that answers where the app is a server; null where it offers functions. */
  readonly serverPath: string | null;
};

/** Where an app is called first, and two commands to paste; the token is shown as it is given. */
export function callHints(
  { name, endpoint, serverPath }: Callable,
  token: string,
): { url: string; commands: string[] } {
  const url = `${endpoint}${serverPath ?? "/run"}`;
  const request = `'${url}' -H "Authorization: Bearer ${token}"`;
  return serverPath === null
    ? {
        url,
        commands: [
          `millrace call ${name}`,
          `curl -X POST ${request} -H 'Content-Type: application/json' -d '{}'`,
        ],
      }
    : { url, commands: [`millrace call ${name} ${serverPath}`, `curl ${request}`] };
}
