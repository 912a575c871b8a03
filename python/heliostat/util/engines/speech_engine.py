"""Models of transformers that write down speech, such as Whisper's."""

from __future__ import annotations

import asyncio
import concurrent.futures
import io
import wave
from typing import Any, NoReturn

from heliostat.core.platform.extras import required
from heliostat.util.engines.engine import Model

# Speech is read in pieces of so many seconds.
_PIECE_S = 30
_WHAT_IT_DOES = "The model writes down speech: ask /v1/audio/transcriptions."


class SpeechEngine:
    """The engine."""

    def __init__(self, model: Model) -> None:
        loaded = required("transformers", "Models of transformers")
        self._torch = required("torch", "Models of transformers")
        self._tokenizer = loaded.AutoTokenizer.from_pretrained(model.tokenizer or model.source)
        self._features = loaded.AutoFeatureExtractor.from_pretrained(model.source)
        self._model = loaded.AutoModelForSpeechSeq2Seq.from_pretrained(
            model.source, **model.options
        ).eval()
        if self._torch.cuda.is_available():
            self._model.to("cuda")
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "transcribe")

    async def check(self) -> None:
        """Nothing can happen to it that would not end the process."""

    def conversation(self, messages: list[dict[str, Any]]) -> NoReturn:
        """Raises ``ValueError``: it makes no text of text."""
        raise ValueError(_WHAT_IT_DOES)

    def generate(self, *_: Any) -> NoReturn:
        """Raises ``ValueError``: it makes no text of text."""
        raise ValueError(_WHAT_IT_DOES)

    async def embed(self, texts: list[str]) -> NoReturn:
        """Raises ``ValueError``: it has no vectors."""
        raise ValueError(_WHAT_IT_DOES)

    async def transcribe(
        self, audio: bytes, language: str | None, temperature: float
    ) -> tuple[str, float]:
        """The text of a recording, and how many seconds it has.

        Raises ``ValueError`` for what is not a recording.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._thread, self._transcribe, audio, language, temperature
        )

    def _transcribe(
        self, audio: bytes, language: str | None, temperature: float
    ) -> tuple[str, float]:
        rate: int = self._features.sampling_rate
        samples = read(audio, rate)
        drawn: dict[str, Any] = {"do_sample": temperature > 0}
        if temperature > 0:
            drawn["temperature"] = temperature
        if language:
            drawn["language"] = language
        texts, size = [], _PIECE_S * rate
        with self._torch.inference_mode():
            for begin in range(0, max(len(samples), 1), size):
                piece = self._features(
                    samples[begin : begin + size], sampling_rate=rate, return_tensors="pt"
                )
                ids = self._model.generate(
                    piece["input_features"].to(self._model.device, self._model.dtype), **drawn
                )
                texts.append(self._tokenizer.decode(ids[0], skip_special_tokens=True).strip())
        return " ".join(one for one in texts if one), len(samples) / rate


def read(audio: bytes, rate: int) -> Any:
    """A recording as numbers from -1 to 1, so many a second, of one channel.

    WAV is read here, everything else by the program ffmpeg. Raises ``ValueError`` for what neither reads.
    """
    numpy: Any = required("numpy", "Recordings")
    try:
        with wave.open(io.BytesIO(audio)) as file:
            width, channels, found = file.getsampwidth(), file.getnchannels(), file.getframerate()
            raw = file.readframes(file.getnframes())
    except (wave.Error, EOFError):
        return _read_other(audio, rate)
    if width == 1:
        values = numpy.frombuffer(raw, numpy.uint8).astype(numpy.float32) / 128 - 1
    elif width == 3:
        wide = numpy.zeros((len(raw) // 3, 4), numpy.uint8)
        wide[:, 1:] = numpy.frombuffer(raw, numpy.uint8).reshape(-1, 3)
        values = wide.view("<i4").reshape(-1).astype(numpy.float32) / 2**31
    else:
        values = numpy.frombuffer(raw, f"<i{width}").astype(numpy.float32) / 2 ** (8 * width - 1)
    values = values.reshape(-1, channels).mean(1)
    return values if found == rate or not len(values) else _resampled(numpy, values, found, rate)


def _resampled(numpy: Any, values: Any, found: int, rate: int) -> Any:
    """The sound with other samples: what is too high for them is left out."""
    count = max(1, round(len(values) * rate / found))
    before = numpy.fft.rfft(values)
    after = numpy.zeros(count // 2 + 1, before.dtype)
    both = min(len(before), len(after))
    after[:both] = before[:both]
    return (numpy.fft.irfft(after, count) * (count / len(values))).astype(numpy.float32)


def _read_other(audio: bytes, rate: int) -> Any:
    audio_utils: Any = required("transformers.pipelines.audio_utils", "Recordings")
    try:
        return audio_utils.ffmpeg_read(audio, rate)
    except ValueError as error:
        raise ValueError(
            f"This is not a WAV file, and ffmpeg does not read it either: {str(error).splitlines()[0]}"
        ) from None
