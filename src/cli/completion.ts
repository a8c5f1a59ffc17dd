import type { Command } from "commander";
import { usage } from "./failure.ts";
import { type Definitions, examples } from "./options.ts";

/** `millrace completion bash|zsh|fish` */
export const COMMANDS: Definitions = {
  completion(command) {
    const shells = Object.keys(SCRIPTS).join(", ");
    command.argument("<shell>", shells);
    examples(
      command,
      "millrace completion bash > ~/.local/share/bash-completion/completions/millrace",
      "millrace completion zsh > ~/.zfunc/_millrace",
      "millrace completion fish > ~/.config/fish/completions/millrace.fish",
    ).action((shell: string) => {
      const script = Object.hasOwn(SCRIPTS, shell) ? SCRIPTS[shell] : undefined;
      if (!script) throw usage(`there is no completion for ${JSON.stringify(shell)}`, shells);
      process.stdout.write(script(nodesOf(command.parent ?? command, [])));
    });
  },
};

/** What may be typed after the words of a path. */
type CommandNode = {
  /** The commands so far, such as `apps list`; empty after `millrace` alone. */
  readonly path: string;
  readonly commands: readonly { readonly name: string; readonly summary: string }[];
  readonly options: readonly {
    readonly flag: string;
    readonly summary: string;
    readonly takesValue: boolean;
  }[];
};

/** For each shell a script that completes every command and option; files where neither fits. */
const SCRIPTS: Readonly<Record<string, (nodes: readonly CommandNode[]) => string>> = { bash, zsh, fish };

function nodesOf(command: Command, path: readonly string[]): CommandNode[] {
  const options = command.options
    .filter(({ hidden, long }) => !hidden && long)
    .map(({ long, description, required }) => ({
      flag: long ?? "",
      summary: description,
      takesValue: required,
    }));
  const here: CommandNode = {
    path: path.join(" "),
    commands: command.commands.map((below) => ({ name: below.name(), summary: below.description() })),
    options: [...options, { flag: "--help", summary: "show help", takesValue: false }],
  };
  return [here, ...command.commands.flatMap((below) => nodesOf(below, [...path, below.name()]))];
}

/**
 * Code of bash and zsh that finds what may be typed next. Commands are recognised from left to right; other words, and
 * options, do not change the level.
 */
function findNext(nodes: readonly CommandNode[]): string {
  const paths = nodes.filter(({ path }) => path !== "").map(({ path }) => `"${path}"`);
  const cases = nodes.map(({ path, commands, options }) => {
    const names = commands.map(({ name }) => name).join(" ");
    return `    "${path}") commands="${names}" options="${options.map(({ flag }) => flag).join(" ")}" ;;`;
  });
  return `  local level="" word
  for word in "\${words[@]:1:$((current - 1))}"; do
    case "\${level:+$level }$word" in
      ${paths.join("|")}) level="\${level:+$level }$word" ;;
    esac
  done
  local commands="" options=""
  case "$level" in
${cases.join("\n")}
  esac`;
}

function bash(nodes: readonly CommandNode[]): string {
  return `# bash completion for millrace
_millrace() {
  local words=("\${COMP_WORDS[@]}") current=$COMP_CWORD
${findNext(nodes)}
  local typed=\${COMP_WORDS[COMP_CWORD]}
  if [[ $typed == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$typed"))
  elif [[ -n $commands ]]; then
    COMPREPLY=($(compgen -W "$commands" -- "$typed"))
  fi
}
complete -o default -F _millrace millrace
`;
}

function zsh(nodes: readonly CommandNode[]): string {
  return `#compdef millrace
_millrace() {
  emulate -L zsh -o KSH_ARRAYS
  local current=$((CURRENT - 1))
${findNext(nodes)}
  local typed=\${words[$current]}
  unsetopt KSH_ARRAYS
  if [[ $typed == -* ]]; then
    compadd -- \${=options}
  elif [[ -n $commands ]]; then
    compadd -- \${=commands}
  else
    _files
  fi
}
if [[ $funcstack[1] == _millrace ]]; then _millrace; else compdef _millrace millrace; fi
`;
}

function fish(nodes: readonly CommandNode[]): string {
  const lines = nodes.flatMap(({ path, commands, options }) => {
    const [first, second] = path.split(" ");
    const seen = [first, second].filter(Boolean).map((word) => `__fish_seen_subcommand_from ${word}`);
    const names = commands.map(({ name }) => name).join(" ");
    // Once one of the next words is there, this level has been left.
    const isHere = [...seen, ...(names === "" ? [] : [`not __fish_seen_subcommand_from ${names}`])];
    const condition = isHere.length === 0 ? "" : ` -n ${quote(isHere.join("; and "))}`;
    return [
      ...commands.map(
        ({ name, summary }) => `complete -c millrace -f${condition} -a ${name} -d ${quote(summary)}`,
      ),
      ...options.map(({ flag, summary, takesValue }) => {
        const value = takesValue ? " -r" : "";
        return `complete -c millrace${condition} -l ${flag.slice(2)}${value} -d ${quote(summary)}`;
      }),
    ];
  });
  return `# fish completion for millrace\n${lines.join("\n")}\n`;
}

function quote(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}
