import type { Command } from "commander";
import { usage } from "./failure.ts";
import { type Definitions, examples } from "./options.ts";

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
      process.stdout.write(script(nodesOf(command.parent ?? command)));
    });
  },
};

/** A command, with the words that lead to it, such as `apps list`; empty for `millrace` alone. */
type CommandNode = { readonly path: string; readonly command: Command };

/** For each shell a script that completes every command and option; files where neither fits. */
const SCRIPTS: Readonly<Record<string, (nodes: readonly CommandNode[]) => string>> = { bash, zsh, fish };

function nodesOf(command: Command, path = ""): CommandNode[] {
  const below = command.commands.flatMap((each) => nodesOf(each, `${path} ${each.name()}`.trimStart()));
  return [{ path, command }, ...below];
}

function namesOf({ commands }: Command): string {
  return commands.map((below) => below.name()).join(" ");
}

/** The options that may be typed, `--help` among them. */
function optionsOf(command: Command): { long: string; description: string; required: boolean }[] {
  const own = command.options.flatMap(({ hidden, long, description, required }) =>
    hidden || !long ? [] : [{ long, description, required }],
  );
  return [...own, { long: "--help", description: "show help", required: false }];
}

/** Code of bash and zsh that finds what may be typed next. Only the names of commands change the level. */
function findNext(nodes: readonly CommandNode[]): string {
  const paths = nodes.filter(({ path }) => path !== "").map(({ path }) => `"${path}"`);
  const cases = nodes.map(({ path, command }) => {
    const options = optionsOf(command).map(({ long }) => long);
    return `    "${path}") commands="${namesOf(command)}" options="${options.join(" ")}" ;;`;
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
  const lines = nodes.flatMap(({ path, command }) => {
    const [first, second] = path.split(" ");
    const seen = [first, second].filter(Boolean).map((word) => `__fish_seen_subcommand_from ${word}`);
    const names = namesOf(command);
    // Once one of the next words is there, this level has been left.
    const isHere = [...seen, ...(names === "" ? [] : [`not __fish_seen_subcommand_from ${names}`])];
    const condition = isHere.length === 0 ? "" : ` -n ${quote(isHere.join("; and "))}`;
    return [
      ...command.commands.map(
        (each) => `complete -c millrace -f${condition} -a ${each.name()} -d ${quote(each.description())}`,
      ),
      ...optionsOf(command).map(({ long, description, required }) => {
        const value = required ? " -r" : "";
        return `complete -c millrace${condition} -l ${long.slice(2)}${value} -d ${quote(description)}`;
      }),
    ];
  });
  return `# fish completion for millrace\n${lines.join("\n")}\n`;
}

function quote(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}
