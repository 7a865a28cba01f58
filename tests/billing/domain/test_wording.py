"""The words on documents and statements."""

from billing.domain import wording


def test_statements_have_the_words_of_documents_too_in_both_languages():
    english, chinese = wording.statement_words("en"), wording.statement_words("zh-hans")
    assert english.keys() == chinese.keys()
    assert (english["split"], chinese["split"], chinese["card-hour"]) == ("Split bill", "分账账单", "卡时")
    assert wording.statement_words("fr") == english
