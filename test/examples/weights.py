"""Tiny models with random weights, saved as those of the real ones are: `python weights.py NAME FOLDER`."""

import sys
import tempfile

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Pooling, Transformer
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
CHAT = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:"


def tokenizer(special: "list[str]" = SPECIAL, **options) -> PreTrainedTokenizerFast:
    """One token for each byte."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {word: number for number, word in enumerate([*special, *letters])}
    bytes_alone = Tokenizer(models.BPE(vocab=words, merges=[], unk_token=None))
    bytes_alone.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_alone.decoder = decoders.ByteLevel()
    names = {"pad_token": special[0], "bos_token": special[1], "eos_token": special[2], "unk_token": special[3]}
    return PreTrainedTokenizerFast(tokenizer_object=bytes_alone, **{**names, **options})


def llm(folder: str) -> None:
    words = tokenizer(chat_template=CHAT)
    words.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        initializer_range=0.5,
    )
    LlamaForCausalLM(config).save_pretrained(folder)


def embeddings(folder: str) -> None:
    with tempfile.TemporaryDirectory() as aside:
        words = tokenizer()
        words.save_pretrained(aside)
        config = BertConfig(
            vocab_size=len(words),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=128,
            initializer_range=0.5,
        )
        BertModel(config).save_pretrained(aside)
        words_of_it = Transformer(aside)
        SentenceTransformer(modules=[words_of_it, Pooling(32)], device="cpu").save(folder)


if __name__ == "__main__":
    torch.manual_seed(0)
    {"embeddings": embeddings, "llm": llm}[sys.argv[1]](sys.argv[2])
