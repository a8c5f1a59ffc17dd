type PathNode = {
  readonly below: Map<string, PathNode>;
  methods: readonly string[] | null;
};

/** Stands for one part of a path, whatever it is. */
const ANY_PART = ":";
/** Stands for all parts that are left. */
const ANY_REST = "*";

/**
 * The paths of a listener with the methods that each takes, for the answer to any other method. The router itself
 * could hold a route for each of those, but six times as many routes were a tenth of a service's start.
 */
export class KnownPaths {
  readonly #root: PathNode = newNode();

  /** A path as the router takes it: `/apps/:id`, `/pages/*`. */
  add(path: string, methods: readonly string[]): void {
    let node = this.#root;
    for (const part of partsOf(path)) {
      const name = part.startsWith(":") ? ANY_PART : part;
      const next = node.below.get(name) ?? newNode();
      node.below.set(name, next);
      node = next;
    }
    node.methods = methods;
  }

  /** The methods of the path that a request's target names; null where there is none. */
  methodsAt(target: string): readonly string[] | null {
    const [path = ""] = target.split(/[?#]/, 1);
    try {
      return find(this.#root, partsOf(decodeURI(path)));
    } catch {
      return null; // What cannot be decoded names nothing.
    }
  }
}

/** As the router looks: a name before what stands for any. */
function find({ below, methods }: PathNode, [part, ...rest]: readonly string[]): readonly string[] | null {
  if (part === undefined) return methods;
  for (const name of [part, ANY_PART]) {
    const next = below.get(name);
    const found = next && find(next, rest);
    if (found) return found;
  }
  return below.get(ANY_REST)?.methods ?? null;
}

function partsOf(path: string): string[] {
  return path.split("/").slice(1);
}

function newNode(): PathNode {
  return { below: new Map(), methods: null };
}
