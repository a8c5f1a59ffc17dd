import type { Command } from "commander";
import { usage } from "./failure.ts";
import { examples } from "./options.ts";
import type { Definitions } from "./options.ts";

/** `millrace completion bash|zsh|fish` */
export const COMMANDS: Definitions = { completion: defineCompletion };

function defineCompletion(command: Command): void {
  command.argument("<shell>", SHELLS.join(", "));
  examples(
    command,
    "millrace completion bash > ~/.local/share/bash-completion/completions/millrace",
    "millrace completion zsh > ~/.zfunc/_millrace",
    "millrace completion fish > ~/.config/fish/completions/millrace.fish",
  ).action((shell: string) => {
    if (!isShell(shell))
      throw usage(`there is no completion for ${JSON.stringify(shell)}`, SHELLS.join(", "));
    process.stdout.write(completionScript(shell, command.parent ?? command));
  });
}

/** The shells there is a completion for. */
const SHELLS = ["bash", "zsh", "fish"] as const;
type Shell = (typeof SHELLS)[number];

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

function isShell(text: string): text is Shell {
  return (SHELLS as readonly string[]).includes(text);
}

/** A script that completes every command and option of the tree in that shell; files where neither fits. */
function completionScript(shell: Shell, program: Command): string {
  const nodes = nodesOf(program, []);
  switch (shell) {
    case "bash":
      return bash(nodes);
    case "zsh":
      return zsh(nodes);
    case "fish":
      return fish(nodes);
    default:
      return shell satisfies never;
  }
}

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

/** Commands are recognised from left to right; other words, and options, do not change the level. */
const FIND_LEVEL = (paths: string): string => `  local level="" word
  for word in "\${words[@]:1:$((current - 1))}"; do
    case "\${level:+$level }$word" in
      ${paths}) level="\${level:+$level }$word" ;;
    esac
  done`;

function bash(nodes: readonly CommandNode[]): string {
  return `# bash completion for millrace
_millrace() {
  local words=("\${COMP_WORDS[@]}") current=$COMP_CWORD
${FIND_LEVEL(pathPattern(nodes))}
  local commands="" options=""
  case "$level" in
${cases(nodes)}
  esac
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
${FIND_LEVEL(pathPattern(nodes))}
  local commands="" options=""
  case "$level" in
${cases(nodes)}
  esac
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

function cases(nodes: readonly CommandNode[]): string {
  return nodes
    .map(({ path, commands, options }) => {
      const names = commands.map(({ name }) => name).join(" ");
      return `    "${path}") commands="${names}" options="${options.map(({ flag }) => flag).join(" ")}" ;;`;
    })
    .join("\n");
}

function pathPattern(nodes: readonly CommandNode[]): string {
  return nodes
    .filter(({ path }) => path !== "")
    .map(({ path }) => `"${path}"`)
    .join("|");
}

function quote(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}
