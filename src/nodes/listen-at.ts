/** Where a node listens: for this machine alone where only that is told to others, else at every address it has. */
export function listenAt(
  url: string | null,
  own: number | null = null,
): { readonly host: string; readonly port: number } {
  if (url === null) return { host: "127.0.0.1", port: own ?? 0 };
  const { hostname, port } = new URL(url);
  const isLoopback = /^(localhost|127\.[\d.]+|\[::1\])$/.test(hostname);
  return { host: isLoopback ? hostname.replace(/^\[(.*)\]$/, "$1") : "::", port: own ?? Number(port) };
}
