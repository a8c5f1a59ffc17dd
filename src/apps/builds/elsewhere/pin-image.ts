/**
 * The image that an app names, by the digest that a machine says it has run: `REPOSITORY@DIGEST`. Null where that is none of
 * the same repository, in which nobody may find the digest.
 */
export function pinImage(image: string, ran: string | null): string | null {
  const [repository = "", digest] = ran?.split("@") ?? [];
  const name = image.replace(/:[^:/]*$/, "");
  // As machines write out what has no host.
  const names = [name, `docker.io/${name}`, `docker.io/library/${name}`];
  return digest !== undefined && names.includes(repository) ? `${name}@${digest}` : null;
}

/** The digest in what a machine says; all of it where there is none. */
export function digestOf(ran: string): string {
  return ran.slice(ran.lastIndexOf("@") + 1);
}
