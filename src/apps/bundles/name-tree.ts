import { type EntryName, foldName, showName } from "./entry-names.ts";

/** Written by clients in front of the app's own files; a second one of the name loses to the first. */
const GENERATED = new Set([
  "requirements.txt",
  "pkglist.txt",
  "conda_pkglist.txt",
  "pre_build_commands.sh",
  "shell_commands.sh",
]);

type Node = {
  readonly name: string;
  readonly isFolder: boolean;
  /** False for a folder known only from what lies in it. */
  isNamed: boolean;
  children: Map<string, Node> | null;
};

/** What became of a name: it is new, it loses to an earlier one, or it stands against one. */
export type Added =
  | { readonly kind: "new" | "loses" }
  | { readonly kind: "refused"; readonly problem: string };

/** The places that an upload's names take, each only once on every file system. */
export class NameTree {
  readonly #root: Node = { name: "", isFolder: true, isNamed: true, children: null };
  readonly #folders: string[] = [];
  #files = 0;

  /** Every folder that is named or needed, parents first. */
  get folders(): readonly string[] {
    return this.#folders;
  }

  /** Files and folders together. */
  get size(): number {
    return this.#files + this.#folders.length;
  }

  add({ names, isFolder }: EntryName): Added {
    let at = this.#root;
    for (const [index, name] of names.entries()) {
      const isLast = index === names.length - 1;
      const isFolderHere = !isLast || isFolder;
      const key = foldName(name);
      const there = at.children?.get(key);
      if (!there) {
        const node: Node = { name, isFolder: isFolderHere, isNamed: isLast, children: null };
        (at.children ??= new Map()).set(key, node);
        if (isFolderHere) this.#folders.push(names.slice(0, index + 1).join("/"));
        else this.#files += 1;
        at = node;
        continue;
      }
      const here = showName(names.slice(0, index + 1).join("/"));
      if (there.name !== name) {
        const other = showName([...names.slice(0, index), there.name].join("/"));
        const why = "differ only in case or Unicode form; some file systems take them for one name";
        return refused(`${here} and ${other} ${why}.`);
      }
      if (there.isFolder !== isFolderHere) return refused(`${here} is both a file and a folder.`);
      if (isLast && there.isNamed) {
        if (names.length === 1 && !isFolder && GENERATED.has(name)) return { kind: "loses" };
        return refused(`${here} is in the zip twice.`);
      }
      if (isLast) there.isNamed = true;
      at = there;
    }
    return { kind: "new" };
  }

  hasFile(...names: string[]): boolean {
    let at: Node | undefined = this.#root;
    for (const name of names) at = at?.children?.get(foldName(name));
    return at !== undefined && !at.isFolder && at.name === names.at(-1);
  }

  /** The one folder in which everything lies; what a Mac adds beside it does not count. */
  get onlyFolder(): string | null {
    const top = [...(this.#root.children?.values() ?? [])].filter(({ name }) => name !== "__MACOSX");
    const [first] = top;
    return first?.isFolder && top.length === 1 ? first.name : null;
  }
}

function refused(problem: string): Added {
  return { kind: "refused", problem };
}
