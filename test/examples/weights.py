"""Tiny models with random weights, saved as the real ones are: `python weights.py KIND=FOLDER ...`."""

import json
import pathlib
import sys
import tempfile

import torch
from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertModel,
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTokenizer,
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    VitsConfig,
    VitsModel,
    VitsTokenizer,
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
    WhisperProcessor,
    WhisperTokenizer,
)

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


def whisper(folder: str) -> None:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    end, languages = "<|endoftext|>", ["<|en|>", "<|de|>"]
    vocabulary = {word: place for place, word in enumerate([*letters, end])}
    words = WhisperTokenizer(vocab=vocabulary, merges=[], pad_token=end)
    marks = ["<|startoftranscript|>", *languages, "<|translate|>", "<|transcribe|>", "<|startofprev|>", "<|nospeech|>"]
    words.add_special_tokens({"additional_special_tokens": [*marks, "<|notimestamps|>"]})
    words.add_tokens([f"<|{place * 0.02:.2f}|>" for place in range(1501)])
    number = words.convert_tokens_to_ids
    features = WhisperFeatureExtractor(feature_size=16)
    WhisperProcessor(features, words).save_pretrained(folder)
    tokens = {
        "bos_token_id": number(end),
        "eos_token_id": number(end),
        "pad_token_id": number(end),
        "decoder_start_token_id": number("<|startoftranscript|>"),
    }
    config = WhisperConfig(
        vocab_size=len(words),
        num_mel_bins=16,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_target_positions=64,
        begin_suppress_tokens=None,
        init_std=0.5,
        **tokens,
    )
    model = WhisperForConditionalGeneration(config)
    model.generation_config = GenerationConfig(
        is_multilingual=True,
        lang_to_id={language: number(language) for language in languages},
        task_to_id={"translate": number("<|translate|>"), "transcribe": number("<|transcribe|>")},
        no_timestamps_token_id=number("<|notimestamps|>"),
        prev_sot_token_id=number("<|startofprev|>"),
        max_initial_timestamp_index=50,
        max_length=64,
        alignment_heads=[[0, 0]],
        **tokens,
    )
    model.save_pretrained(folder)


def diffusion(folder: str) -> None:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    end = ["<|startoftext|>", "<|endoftext|>"]
    vocabulary = [*letters, *(f"{letter}</w>" for letter in letters), *end]
    words = CLIPTokenizer(vocab={word: place for place, word in enumerate(vocabulary)}, merges=[])
    words.model_max_length = 77
    text = CLIPTextConfig(
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=37,
        num_attention_heads=4,
        num_hidden_layers=2,
        bos_token_id=len(vocabulary) - 2,
        eos_token_id=len(vocabulary) - 1,
        pad_token_id=len(vocabulary) - 1,
    )
    unet = UNet2DConditionModel(
        block_out_channels=(32, 64),
        layers_per_block=1,
        sample_size=32,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=32,
        norm_num_groups=8,
    )
    vae = AutoencoderKL(
        block_out_channels=(32, 64),
        down_block_types=("DownEncoderBlock2D", "DownEncoderBlock2D"),
        up_block_types=("UpDecoderBlock2D", "UpDecoderBlock2D"),
        latent_channels=4,
        norm_num_groups=8,
    )
    StableDiffusionPipeline(
        unet=unet,
        vae=vae,
        text_encoder=CLIPTextModel(text),
        tokenizer=words,
        scheduler=DDIMScheduler(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    ).save_pretrained(folder)


def voice(folder: str) -> None:
    letters = "_" + "".join(map(chr, range(32, 127))).lower()
    with tempfile.TemporaryDirectory() as aside:
        file = pathlib.Path(aside) / "vocab.json"
        file.write_text(json.dumps({letter: place for place, letter in enumerate(dict.fromkeys(letters))}))
        VitsTokenizer(str(file), pad_token="_", phonemize=False).save_pretrained(folder)
    config = VitsConfig(
        vocab_size=len(set(letters)),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        ffn_dim=32,
        flow_size=32,
        spectrogram_bins=9,
        prior_encoder_num_flows=2,
        prior_encoder_num_wavenet_layers=1,
        posterior_encoder_num_wavenet_layers=1,
        duration_predictor_num_flows=2,
        duration_predictor_filter_channels=32,
        upsample_initial_channel=32,
        wavenet_dilation_rate=1,
    )
    VitsModel(config).save_pretrained(folder)


KINDS = {"diffusion": diffusion, "embeddings": embeddings, "llm": llm, "voice": voice, "whisper": whisper}

if __name__ == "__main__":
    for seed, asked in enumerate(sys.argv[1:]):
        kind, folder = asked.split("=", 1)
        torch.manual_seed(seed)
        KINDS[kind](folder)
