"""Stop words: the words of English grammar, which carry no meaning that a synonym could carry as well."""

from __future__ import annotations

__all__ = ["STOP_WORDS", "is_stop_word"]

_LISTED = """
    a an the this that these those such same own other another each every either neither both all any some no none few many
    much more most less least several enough
    i me my mine myself you your yours yourself yourselves he him his himself she her hers herself it its itself
    we us our ours ourselves they them their theirs themselves one ones oneself
    who whom whose which what whoever whatever whichever when where why how whenever wherever however
    somebody someone something somewhere anybody anyone anything anywhere everybody everyone everything everywhere
    nobody nothing nowhere
    am is are was were be been being do does did done doing have has had having
    can could may might must shall should will would ought cannot need dare
    and or but nor so yet if unless because since although though while whereas whether than as until till
    of at by for with about against between among into onto through throughout during before after above below to from
    up down in out on off over under within without upon toward towards across along around behind beside besides beneath
    beyond despite except inside outside near like unlike per via amid
    not never ever only just also too very quite rather then once again here there now still already even
    ain't aren't can't couldn't didn't doesn't don't hadn't hasn't haven't isn't mightn't mustn't needn't shan't shouldn't
    wasn't weren't won't wouldn't i'm i've i'll i'd you're you've you'll you'd he's he'll he'd she's she'll she'd it's it'll
    we're we've we'll we'd they're they've they'll they'd that's there's here's what's who's where's how's let's
    n't 's 're 've 'll 'd 'm ca wo sha ai nt s t d m ll re ve don doesn didn isn aren wasn weren hasn haven hadn couldn
    shouldn wouldn im ive
"""
# The last lines: contractions, and what tokenisers make of them ("do n't", "don t").

STOP_WORDS: frozenset[str] = frozenset(_LISTED.split())
"""Lower case, with the straight apostrophe."""


def is_stop_word(token: str) -> bool:
    """Whether a token is a stop word, in upper or lower case, with a straight or a curly apostrophe."""
    return token.lower().replace("\u2019", "'") in STOP_WORDS
